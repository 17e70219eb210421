#!/bin/sh
# Fills a version 4 volume, crashes it, and lists what its own kernel recovers from a copy.
# version4.sh DEVICE COPY SEED
# DEVICE holds a volume of mkfs.xfs -m crc=0, and COPY is a device of the same size. The kernel must
# mount version 4; Linux 6.1 does.
# testdata/version4.image and version4.listing are the device and the output for
#   mkfs.xfs --unsupported -m crc=0 -b size=512 -i attr=1,projid32bit=0,size=256 \
#     -l version=1,lazy-count=0 -n version=ci,ftype=0 on 32 MiB, and seed 7.
set -e
device=$1 copy=$2 seed=$3
mount "$device" /mnt
cd /mnt
mkdir short block leaf node many deep deep/a deep/a/b
for n in 1 2 3; do echo "$n of $seed" > short/s$n; done
names() { n=0; while [ $n -lt "$3" ]; do echo "$1/$2$n"; n=$((n + 1)); done; }
names block file $((12 + seed % 5)) | xargs touch
names leaf a_name_in_a_leaf_ $((150 + seed)) | xargs touch
names node a_name_below_a_node_ $((650 + 10 * seed)) | xargs touch
names node a_name_below_a_node_ $((100 + seed)) | xargs rm
names many m $((80 + seed)) | xargs touch
echo mixed > Hello
touch "$(printf '\311t\351')"
ln -s short/s1 link
ln -s "/$(printf "%0$((300 + seed))d" 7)" long-link
ln -s "/$(printf '%01000d' 7)" longest-link
mknod chr c 5 300
mknod blk b 8 70000
mkfifo fifo
ln short/s1 hard
dd if=/dev/urandom of=random bs=1k count=$((70 + seed)) 2> /dev/null
set --
n=0
while [ $n -lt 120 ]; do set -- "$@" -c "pwrite -q -S $n $((n * 8))k 4k"; n=$((n + 1)); done
xfs_io -f "$@" -c fsync pieces
xfs_io -f -c 'falloc 0 100k' -c 'pwrite -q 20k 4k' preallocated
xfs_io -c "chproj $((1000 + seed))" short/s3
chown 1000:2000 short/s1
chmod 4755 short/s2
setfattr -n user.small -v small short/s1
setfattr -n trusted.t -v tt short/s1
setfattr -n security.s -v ss short/s1
n=0
while [ $n -lt 40 ]; do
  setfattr -n user.attribute_number_$n -v value_$n block/file1
  n=$((n + 1))
done
setfattr -n user.big -v "$(printf '%03000d' 7)" block/file2
setfattr -n user.bigger -v "$(printf '%020000d' 7)" block/file3
setfattr -h -n trusted.on_link -v l link
touch -d @1000000000 short/s3
echo x > deep/a/b/e
sync

# What follows is only in the log.
mkdir logged logged/sub
names logged f 30 | xargs touch
rm logged/f3 short/s2
mv logged/f4 logged/g4
ln -s target logged/l
names logged/sub a_new_name_ $((90 + seed)) | xargs touch
names many m $((60 + seed)) | xargs rm
setfattr -n user.logged -v "$seed" logged/f5
xfs_io -f -c 'pwrite -q 0 10k' -c fsync logged/last
xfs_io -x -c 'shutdown -f' .
cd /
umount /mnt

cat "$device" > "$copy"
mount -o noatime "$copy" /mnt
cd /mnt
find . -exec stat -c 'stat %n %i %f %h %u %g %s %X %Y %Z %t:%T' {} +
find . -type f -exec crc32 {} + | sed 's/^/sum /'
find . -type l | while read -r name; do echo "link $name $(readlink "$name")"; done
for name in block/file1 block/file2 block/file3 short/s1 link logged/f5; do
  getfattr -h -d "$name" | awk -F '="' -v "name=$name" '/^user\./ {
    sub(/"$/, "", $2); print "attribute ./" name, $1, length($2), substr($2, 1, 9) }'
done
cd /
umount /mnt
