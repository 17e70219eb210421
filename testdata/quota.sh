# Makes a volume with quota of all three types and a dirty log; packed, it is testdata/quota.image.
# This is a script for a guest (`xfs_oracle::guest`), with an empty image as its only drive:
#
#   truncate -s 16m IMAGE
#   FERROXFS_ORACLES=target/oracles cargo run -p xfs-oracle --example guest -- \
#       new testdata/quota.sh IMAGE
#   cargo run -p xfs-testkit --example pack -- IMAGE testdata/quota.image
#
# The log holds new blocks of dquots, changes of dquots, and changes of files. Nothing is unlinked
# and open.
export TEST_DIR=1 TEST_DEV=1 QA_CHECK_FS=1
mkfs.xfs -q -b size=1024 -l size=5m -n parent=1 -i exchange=1 \
    -m uuid=f0000000-0000-4000-8000-0000000c0de5 -L quota /dev/vda || exit 1
mount -o usrquota,grpquota,prjquota /dev/vda /mnt || exit 1
quota() { xfs_quota -x -c "$1" /mnt; }

# On disk: owners in the first block of each quota inode, with limits.
mkdir /mnt/d
quota 'limit -u bsoft=100k bhard=200k isoft=5 ihard=9 1'
quota 'limit -g bhard=300k 2'
for n in 1 2 3; do
  dd if=/dev/zero of=/mnt/d/f$n bs=1k count=$((n * 10)) 2>/dev/null
  chown $n:2 /mnt/d/f$n
done
sync; umount /mnt
mount -o usrquota,grpquota,prjquota /dev/vda /mnt || exit 1

# Only in the log: a changed dquot, new blocks of all types, and a limit.
dd if=/dev/zero of=/mnt/d/f1 bs=1k count=50 2>/dev/null
dd if=/dev/zero of=/mnt/d/new bs=1k count=70 2>/dev/null
chown 1000:2000 /mnt/d/new
xfs_io -c 'chproj 3000' /mnt/d/new
touch /mnt/d/empty; chown 4294967294 /mnt/d/empty
rm /mnt/d/f3
quota 'limit -p bhard=900k 3000'
sync -d /mnt/d/f1 /mnt/d/new
xfs_io -x -c 'shutdown -f' /mnt
umount /mnt
