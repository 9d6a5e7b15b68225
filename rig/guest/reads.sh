# The x86 guest: the recording that docs/tutorial.md explains, docs/examples/reads.parquet.
cat >/tmp/job.fio <<JOB
[reader]
filename=/dev/nvme0n1
direct=1
ioengine=psync
rw=randread
bs=4k
thinktime=200us
time_based
runtime=4
JOB
wakepath record -o /out/reads.parquet -- fio --output=/out/fio.txt /tmp/job.fio 2>/out/wakepath.txt
