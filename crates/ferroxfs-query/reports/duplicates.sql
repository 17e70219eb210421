-- Files with the same size and hash; without a hash they are candidates by size alone
-- parameters: date volume minimum limit
-- Equal sizes do not prove equal contents. scan --hash writes the column hash. A row without
-- contents_hash counts the files of its size that have none. There is one such row even for a
-- single file, if files with a hash have that size. The window has an order although all its rows
-- are equal in it: without one, DuckDB 2.0.1 forgets the condition on the date.
WITH grouped AS (
  SELECT
    size_bytes,
    contents_hash,
    CAST(count(*) AS BIGINT) AS file_count,
    min(path) AS first_path,
    max(path) AS last_path
  FROM (
    SELECT CAST(size AS BIGINT) AS size_bytes, hash AS contents_hash, path
    FROM inodes
    WHERE scan_date = CAST('{date}' AS DATE) AND volume_uuid LIKE '{volume}' AND type = 'file'
      AND size >= {minimum} AND size > 0
  ) AS files_found
  GROUP BY size_bytes, contents_hash
),
compared AS (
  SELECT
    size_bytes, contents_hash, file_count, first_path, last_path,
    CAST(sum(file_count) OVER (PARTITION BY size_bytes ORDER BY size_bytes) AS BIGINT)
      AS files_of_size
  FROM grouped
)
SELECT
  size_bytes,
  contents_hash,
  file_count AS files,
  CASE WHEN contents_hash IS NULL AND file_count < files_of_size THEN size_bytes * file_count
    ELSE size_bytes * (file_count - 1) END AS repeated_bytes,
  first_path,
  last_path
FROM compared
WHERE file_count > 1 OR (contents_hash IS NULL AND files_of_size > 1)
ORDER BY repeated_bytes DESC, size_bytes DESC, COALESCE(contents_hash, '')
LIMIT {limit}
