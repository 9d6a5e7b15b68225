# Guests in which `wakepath daemon` gives leases (docs/guides/psd.md): the psd.sh of the rig, and the laboratory.

# Starts it with this policy as its configuration, and waits until it is ready. Its process is $daemon.
daemon() {
    printf 'policy = ["%s"]\n[boost]\nmode = "off"\n' "$1" >/tmp/daemon.toml
    wakepath daemon --config /tmp/daemon.toml >/out/daemon.txt 2>&1 &
    daemon=$!
    until grep -q leases /out/daemon.txt; do
        kill -0 $daemon
        usleep 100000
    done
}
