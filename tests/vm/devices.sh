# SPDX-License-Identifier: BSD-2-Clause
# Sourced in the guest by bash before the command: Soft-RoCE devices, see VM_TOPOLOGY in tests/vm/run.
ip link set lo up
echo guest >/proc/sys/kernel/hostname
echo '127.0.0.1 guest' >>/etc/hosts
ulimit -l unlimited
ulimit -n 65536 # hundreds of connections, each end in the same process

load() {
    modprobe "$1" || { echo "devices.sh: modprobe $1 failed" >&2; return 1; }
}

# One device, whose traffic to itself stays inside of rdma_rxe. GID 1 is 10.77.0.1.
make_one() {
    ip link add v0 type dummy && ip link set v0 mtu 4200 up &&
        ip addr add 10.77.0.1/24 dev v0 && ip -6 addr add fd77::1/64 dev v0 nodad &&
        rdma link add rxe0 type rxe netdev v0
}

# Two devices that reach each other over a veth and not over lo. The rules must be this exact: rdma_cm
# checks that the way back of a request leaves through the device that it came in on.
make_pair() {
    local end
    ip link add v0 type veth peer name v1 || return 1
    for end in v0 v1; do
        echo 1 >/proc/sys/net/ipv4/conf/$end/accept_local
        echo 0 >/proc/sys/net/ipv4/conf/$end/rp_filter
        ip link set $end mtu 4200 up
    done
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
    ip addr add 10.77.0.1/24 dev v0
    ip addr add 10.77.0.2/24 dev v1
    ip rule add pref 10 iif v0 to 10.77.0.1 lookup local
    ip rule add pref 11 iif v1 to 10.77.0.2 lookup local
    ip route add 10.77.0.2 dev v0 src 10.77.0.1 table 77
    ip route add 10.77.0.1 dev v1 src 10.77.0.2 table 77
    ip rule add pref 12 lookup 77
    ip rule add pref 100 lookup local && ip rule del pref 0
    ip neigh replace 10.77.0.2 dev v0 lladdr "$(cat /sys/class/net/v1/address)"
    ip neigh replace 10.77.0.1 dev v1 lladdr "$(cat /sys/class/net/v0/address)"
    for end in v0 v1; do
        # shellcheck disable=SC2086
        [ -z "${VM_NETEM:-}" ] || tc qdisc add dev $end root netem limit 100000 $VM_NETEM || return 1
    done
    rdma link add rxe0 type rxe netdev v0 && rdma link add rxe1 type rxe netdev v1
}

# rdma_rxe looks crc32 up by name as a link is added: ENOENT means that it is not there.
load crc32_generic && load rdma_rxe && load rdma_ucm && load ib_umad || return 1
case ${VM_TOPOLOGY:-one} in
one) make_one ;;
pair) make_pair ;;
*) echo "devices.sh: VM_TOPOLOGY=$VM_TOPOLOGY; there are one and pair" >&2; return 1 ;;
esac
