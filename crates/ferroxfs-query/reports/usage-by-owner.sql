-- Space and inodes of each owner on a date, the largest first
-- parameters: date volume limit
SELECT
  CAST(uid AS BIGINT) AS user_id,
  max(owner) AS owner_name,
  count(*) AS inodes,
  sum(CAST(size AS BIGINT)) AS size_bytes,
  sum(CAST(blocks AS BIGINT)) * 512 AS used_bytes
FROM inodes
WHERE scan_date = CAST('{date}' AS DATE) AND volume_uuid LIKE '{volume}'
GROUP BY uid
ORDER BY used_bytes DESC, user_id
LIMIT {limit}
