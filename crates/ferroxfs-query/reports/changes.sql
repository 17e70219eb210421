-- The inodes that were created, removed, renamed or changed between two dates
-- parameters: since date volume limit
-- Inodes count as the same if their number and generation are. A changed inode has another ctime.
-- Volumes without a scan on one of the dates are left out.
WITH both_days AS (
  SELECT volume_uuid AS both_volume
  FROM scans
  WHERE (scan_date = CAST('{since}' AS DATE) OR scan_date = CAST('{date}' AS DATE))
    AND volume_uuid LIKE '{volume}'
  GROUP BY volume_uuid
  HAVING count(*) = 2
),
touched AS (
  SELECT volume_uuid AS touched_volume, ino AS touched_ino, generation AS touched_generation
  FROM inodes
  WHERE (scan_date = CAST('{since}' AS DATE) OR scan_date = CAST('{date}' AS DATE))
    AND volume_uuid IN (SELECT both_volume FROM both_days)
  GROUP BY volume_uuid, ino, generation
  HAVING count(*) = 1 OR min(ctime) <> max(ctime)
),
states AS (
  SELECT
    volume_uuid, ino, generation,
    max(type) AS kind,
    min(mtime) AS mtime_least,
    max(mtime) AS mtime_most,
    max(CASE WHEN scan_date = CAST('{since}' AS DATE) THEN path END) AS path_before,
    max(CASE WHEN scan_date = CAST('{date}' AS DATE) THEN path END) AS path_after,
    max(CASE WHEN scan_date = CAST('{since}' AS DATE) THEN CAST(size AS BIGINT) END) AS size_before,
    max(CASE WHEN scan_date = CAST('{date}' AS DATE) THEN CAST(size AS BIGINT) END) AS size_after
  FROM inodes INNER JOIN touched
    ON volume_uuid = touched_volume AND ino = touched_ino AND generation = touched_generation
  WHERE scan_date = CAST('{since}' AS DATE) OR scan_date = CAST('{date}' AS DATE)
  GROUP BY volume_uuid, ino, generation
),
named AS (
  SELECT
    volume_uuid, ino, generation, kind, path_before, path_after, size_before, size_after,
    COALESCE(size_after, 0) - COALESCE(size_before, 0) AS size_change,
    CASE
      WHEN size_before IS NULL THEN 'created'
      WHEN size_after IS NULL THEN 'removed'
      WHEN path_before <> path_after THEN 'renamed'
      WHEN mtime_least <> mtime_most OR size_before <> size_after THEN 'contents'
      ELSE 'attributes'
    END AS change
  FROM states
)
SELECT
  volume_uuid,
  change,
  CAST(ino AS BIGINT) AS inode,
  CAST(generation AS BIGINT) AS inode_generation,
  kind,
  path_before,
  path_after,
  size_before AS size_before_bytes,
  size_after AS size_after_bytes,
  size_change AS size_change_bytes
FROM named
ORDER BY abs(size_change) DESC, volume_uuid, inode, inode_generation
LIMIT {limit}
