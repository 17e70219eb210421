-- Space and inodes on each date, and the change since the date before
-- parameters: since date volume
SELECT
  scan_date,
  volumes,
  inodes,
  size_bytes,
  used_bytes,
  CASE WHEN row_number() OVER (ORDER BY scan_date) = 1 THEN 0
    ELSE inodes - lag(inodes) OVER (ORDER BY scan_date) END AS inodes_change,
  CASE WHEN row_number() OVER (ORDER BY scan_date) = 1 THEN 0
    ELSE used_bytes - lag(used_bytes) OVER (ORDER BY scan_date) END AS used_bytes_change
FROM (
  SELECT
    scan_date,
    count(DISTINCT volume_uuid) AS volumes,
    CAST(count(*) AS BIGINT) AS inodes,
    sum(CAST(size AS BIGINT)) AS size_bytes,
    sum(CAST(blocks AS BIGINT)) * 512 AS used_bytes
  FROM inodes
  WHERE scan_date >= CAST('{since}' AS DATE) AND scan_date <= CAST('{date}' AS DATE)
    AND volume_uuid LIKE '{volume}'
  GROUP BY scan_date
) AS totals
ORDER BY scan_date
