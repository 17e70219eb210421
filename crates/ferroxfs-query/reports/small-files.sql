-- Directories with the most files smaller than a size, down to a depth
-- parameters: date volume depth small limit
-- A file counts in one directory: the one in which it is, cut off at the depth.
WITH located AS (
  SELECT volume_uuid, path, type, size, blocks,
    length(path) - length(replace(path, '/', ''))
      - CASE WHEN type = 'directory' AND path <> '/' THEN 0 ELSE 1 END AS parents
  FROM inodes
  WHERE scan_date = CAST('{date}' AS DATE) AND volume_uuid LIKE '{volume}' AND type = 'file'
),
placed AS (
  SELECT volume_uuid, size, blocks,
    CASE WHEN path IS NULL THEN '(no path)' ELSE
      '/'
      || CASE WHEN parents >= 1 AND {depth} >= 1 THEN split_part(path, '/', 2) ELSE '' END
      || CASE WHEN parents >= 2 AND {depth} >= 2 THEN '/' || split_part(path, '/', 3) ELSE '' END
      || CASE WHEN parents >= 3 AND {depth} >= 3 THEN '/' || split_part(path, '/', 4) ELSE '' END
      || CASE WHEN parents >= 4 AND {depth} >= 4 THEN '/' || split_part(path, '/', 5) ELSE '' END
      || CASE WHEN parents >= 5 AND {depth} >= 5 THEN '/' || split_part(path, '/', 6) ELSE '' END
      || CASE WHEN parents >= 6 AND {depth} >= 6 THEN '/' || split_part(path, '/', 7) ELSE '' END
    END AS directory
  FROM located
)
SELECT
  volume_uuid,
  directory,
  count(*) AS files,
  sum(CASE WHEN size < {small} THEN 1 ELSE 0 END) AS small_files,
  sum(CASE WHEN size < {small} THEN CAST(size AS BIGINT) ELSE 0 END) AS small_size_bytes,
  sum(CASE WHEN size < {small} THEN CAST(blocks AS BIGINT) ELSE 0 END) * 512 AS small_used_bytes
FROM placed
GROUP BY volume_uuid, directory
HAVING sum(CASE WHEN size < {small} THEN 1 ELSE 0 END) > 0
ORDER BY small_files DESC, volume_uuid, directory
LIMIT {limit}
