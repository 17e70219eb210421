-- Sizes that several files have: candidates for duplicates, by size alone
-- parameters: date volume minimum limit
-- Equal sizes do not prove equal contents. Datasets of scan --hash have a column that tells more.
SELECT
  size_bytes,
  count(*) AS files,
  size_bytes * (CAST(count(*) AS BIGINT) - 1) AS repeated_bytes,
  min(path) AS first_path,
  max(path) AS last_path
FROM (
  SELECT CAST(size AS BIGINT) AS size_bytes, path
  FROM inodes
  WHERE scan_date = CAST('{date}' AS DATE) AND volume_uuid LIKE '{volume}' AND type = 'file'
    AND size >= {minimum} AND size > 0
) AS files_found
GROUP BY size_bytes
HAVING count(*) > 1
ORDER BY repeated_bytes DESC, size_bytes DESC
LIMIT {limit}
