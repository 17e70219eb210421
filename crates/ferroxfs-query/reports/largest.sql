-- The largest files on a date
-- parameters: date volume limit
SELECT
  volume_uuid,
  CAST(ino AS BIGINT) AS inode,
  path,
  CAST(uid AS BIGINT) AS user_id,
  CAST(size AS BIGINT) AS size_bytes,
  CAST(blocks AS BIGINT) * 512 AS used_bytes,
  modified
FROM inodes
WHERE scan_date = CAST('{date}' AS DATE) AND volume_uuid LIKE '{volume}' AND type = 'file'
ORDER BY size_bytes DESC, volume_uuid, inode
LIMIT {limit}
