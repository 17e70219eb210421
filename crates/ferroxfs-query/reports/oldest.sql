-- The files that were modified longest ago, by day; the largest of a day first
-- parameters: date volume minimum limit
SELECT
  volume_uuid,
  CAST(ino AS BIGINT) AS inode,
  path,
  CAST(uid AS BIGINT) AS user_id,
  CAST(size AS BIGINT) AS size_bytes,
  modified,
  accessed
FROM inodes
WHERE scan_date = CAST('{date}' AS DATE) AND volume_uuid LIKE '{volume}' AND type = 'file'
  AND size >= {minimum} AND modified IS NOT NULL
ORDER BY modified, size_bytes DESC, volume_uuid, inode
LIMIT {limit}
