-- Space and inodes below each directory on a date, down to a depth, as du counts them
-- parameters: date volume depth limit
-- An inode counts in each directory above it, and a directory also in itself. An inode without a
-- path counts in the row '(no path)'.
WITH located AS (
  SELECT volume_uuid, path, type, size, blocks,
    length(path) - length(replace(path, '/', ''))
      - CASE WHEN type = 'directory' AND path <> '/' THEN 0 ELSE 1 END AS parents
  FROM inodes
  WHERE scan_date = CAST('{date}' AS DATE) AND volume_uuid LIKE '{volume}'
),
placed AS (
  SELECT volume_uuid, size, blocks,
    CASE WHEN parents IS NULL THEN 0 WHEN parents > {depth} THEN {depth} ELSE parents END AS level,
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
),
counted AS (
  SELECT volume_uuid, directory, level,
    count(*) AS inode_count,
    sum(CAST(size AS BIGINT)) AS size_sum,
    sum(CAST(blocks AS BIGINT)) * 512 AS used_sum
  FROM placed
  GROUP BY volume_uuid, directory, level
),
levels AS (
  SELECT 0 AS n UNION ALL SELECT 1 AS n UNION ALL SELECT 2 AS n UNION ALL SELECT 3 AS n
  UNION ALL SELECT 4 AS n UNION ALL SELECT 5 AS n UNION ALL SELECT 6 AS n
),
spread AS (
  SELECT volume_uuid, inode_count, size_sum, used_sum, n,
    CASE WHEN directory = '(no path)' THEN directory ELSE
      '/'
      || CASE WHEN n >= 1 THEN split_part(directory, '/', 2) ELSE '' END
      || CASE WHEN n >= 2 THEN '/' || split_part(directory, '/', 3) ELSE '' END
      || CASE WHEN n >= 3 THEN '/' || split_part(directory, '/', 4) ELSE '' END
      || CASE WHEN n >= 4 THEN '/' || split_part(directory, '/', 5) ELSE '' END
      || CASE WHEN n >= 5 THEN '/' || split_part(directory, '/', 6) ELSE '' END
      || CASE WHEN n >= 6 THEN '/' || split_part(directory, '/', 7) ELSE '' END
    END AS above
  FROM counted CROSS JOIN levels
  WHERE n <= level
)
SELECT
  volume_uuid,
  above AS directory,
  n AS depth,
  sum(inode_count) AS inodes,
  sum(size_sum) AS size_bytes,
  sum(used_sum) AS used_bytes
FROM spread
GROUP BY volume_uuid, above, n
ORDER BY used_bytes DESC, volume_uuid, directory
LIMIT {limit}
