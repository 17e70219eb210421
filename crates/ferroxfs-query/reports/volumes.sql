-- Each volume on a date: its inodes, its space, and the errors of its scan
-- parameters: date volume limit
SELECT
  scans.volume_uuid AS volume_uuid,
  scans.volume_label AS label,
  CAST(scans.errors AS BIGINT) AS scan_errors,
  CAST(scans.missing_inodes AS BIGINT) AS inodes_missing,
  COALESCE(totals.rows_found, 0) AS inodes_found,
  COALESCE(totals.size_sum, 0) AS size_bytes,
  COALESCE(totals.blocks_sum, 0) * 512 AS used_bytes
FROM scans LEFT JOIN (
  SELECT
    volume_uuid,
    count(*) AS rows_found,
    sum(CAST(size AS BIGINT)) AS size_sum,
    sum(CAST(blocks AS BIGINT)) AS blocks_sum
  FROM inodes
  WHERE scan_date = CAST('{date}' AS DATE) AND volume_uuid LIKE '{volume}'
  GROUP BY volume_uuid
) AS totals ON scans.volume_uuid = totals.volume_uuid
WHERE scans.scan_date = CAST('{date}' AS DATE) AND scans.volume_uuid LIKE '{volume}'
ORDER BY used_bytes DESC, volume_uuid
LIMIT {limit}
