# Hosts as network namespaces, for the tests in this folder (to be sourced; root only).
#
#   hosts_begin                 a fresh set; everything made here is removed when the script ends
#   host NAME                   a namespace with its own host name, loopback up
#   network NAME                a switch
#   plug HOST NETWORK IF ADDR.. a cable from HOST to NETWORK: its interface IF gets the addresses (none: link-local only)
#   local_bridge HOST IF ADDR   an interface of the kind container engines make: up, and no way to anybody
#   on HOST COMMAND...          runs there
#
# Names of namespaces and interfaces begin with a prefix of this process, so that several tests can run at a time.
# NET_TEST_PATIENCE: by what the limits of time are longer (tests/CMakeLists.txt: sanitizers).

patience=${NET_TEST_PATIENCE:-1}

skip() { echo "skipped: $*"; exit 77; }
die() { echo "FAILED: $*" >&2; exit 1; }

hosts_begin() {
  [ "$(id -u)" = 0 ] || skip "network namespaces need root"
  command -v ip >/dev/null || skip "there is no ip command (Debian package iproute2)"
  NET_TEST_PREFIX=tn$$-
  NET_TEST_STATE=$(mktemp -d) || die "no temporary directory"
  export NET_TEST_PREFIX NET_TEST_STATE
  trap hosts_end EXIT
  trap 'exit 1' INT TERM
  ip netns add "${NET_TEST_PREFIX}switch" 2>/dev/null || skip "this kernel or container allows no network namespaces"
  cables=0
}

hosts_end() {
  status=$?
  for file in "$NET_TEST_STATE"/*.uts; do
    [ -e "$file" ] && umount "$file" 2>/dev/null
  done
  # A namespace goes with its last process: whatever a failed test left running in one is ended first, by its id.
  for name in $(ip netns list | awk '{print $1}' | grep "^$NET_TEST_PREFIX"); do
    for process in $(ip netns pids "$name"); do kill -9 "$process" 2>/dev/null; done
    ip netns del "$name"
  done
  rm -rf "$NET_TEST_STATE"
  exit $status
}

host() {
  ip netns add "$NET_TEST_PREFIX$1" || die "no namespace for $1"
  ip -n "$NET_TEST_PREFIX$1" link set lo up
  : >"$NET_TEST_STATE/$1.uts"
  unshare --uts="$NET_TEST_STATE/$1.uts" hostname "$1" || die "no host name for $1"
}

# All switches stand in a namespace of their own, so that the machine's own network sees nothing of this.
network() {
  ip -n "${NET_TEST_PREFIX}switch" link add "$1" type bridge || skip "this kernel has no bridges"
  ip -n "${NET_TEST_PREFIX}switch" link set "$1" up
}

plug() {
  plugged=$1 to=$2 interface=$3
  shift 3
  cables=$((cables + 1))
  ip link add "$interface" netns "$NET_TEST_PREFIX$plugged" type veth \
    peer name "p$cables" netns "${NET_TEST_PREFIX}switch" || die "no cable from $plugged to $to"
  ip -n "${NET_TEST_PREFIX}switch" link set "p$cables" master "$to" up
  for address in "$@"; do
    case $address in
      *:*) ip -n "$NET_TEST_PREFIX$plugged" address add "$address" dev "$interface" nodad ;;
      *) ip -n "$NET_TEST_PREFIX$plugged" address add "$address" dev "$interface" ;;
    esac || die "no address $address"
  done
  ip -n "$NET_TEST_PREFIX$plugged" link set "$interface" up
}

local_bridge() {
  ip -n "$NET_TEST_PREFIX$1" link add "$2" type bridge || skip "this kernel has no bridges"
  ip -n "$NET_TEST_PREFIX$1" address add "$3" dev "$2"
  ip -n "$NET_TEST_PREFIX$1" link set "$2" up
  # A bridge runs only with something plugged in.
  ip -n "$NET_TEST_PREFIX$1" link add "c-$2" type veth peer name "d-$2"
  ip -n "$NET_TEST_PREFIX$1" link set "c-$2" master "$2" up
  ip -n "$NET_TEST_PREFIX$1" link set "d-$2" up
}

on() {
  there=$1
  shift
  nsenter --net="/run/netns/$NET_TEST_PREFIX$there" --uts="$NET_TEST_STATE/$there.uts" "$@"
}

# Until all cables carry (on a busy machine the kernel notices late), and link-local addresses are usable, which they are when
# the kernel has found no duplicate: about a second and a half.
wait_for_addresses() {
  for name in $(ip netns list | awk '{print $1}' | grep "^$NET_TEST_PREFIX"); do
    for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
      ip -n "$name" -o link show up | grep -q "NO-CARRIER\|LOWERLAYERDOWN\|state DOWN" || break
      sleep 0.25
    done
  done
  for name in $(ip netns list | awk '{print $1}' | grep "^$NET_TEST_PREFIX"); do
    for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
      ip -n "$name" -6 address show tentative | grep -q inet6 || break
      sleep 0.25
    done
  done
}

# world WHAT "HOST HOST ..." : one tcp_world rank on each, cards through a directory; fails when one does, or after $world_limit
# seconds (80 times the patience: tcp_world gives up by itself after 60 without an end, and says what it saw).
world() {
  what=$1 cards=$(mktemp -d -p "$NET_TEST_STATE") rank=0 children=
  set -- $2
  size=$#
  for where in "$@"; do
    on "$where" timeout "${world_limit:-$((80 * patience))}" "$TCP_WORLD" $rank $size "$cards" $what 2>"$cards/err.$rank" >"$cards/out.$rank" &
    children="$children $!"
    rank=$((rank + 1))
  done
  failed=0
  for child in $children; do
    status=0
    wait "$child" || status=$? failed=1
    [ $status -le 128 ] || echo "a rank has crashed (signal $((status - 128)))" >>"$cards/err.0"
  done
  cat "$cards"/err.* "$cards"/out.*
  return $failed
}

# relay_begin HOST HOST FAULTS...: $relay (relay.cc) between two hosts, as tun0 of each; its pid is $relaying. The devices of one
# that has just ended may take a moment to go.
relay_begin() {
  one=$1 other=$2
  shift 2
  for try in 1 2 3 4 5 6 7 8 9 10; do
    : >"$NET_TEST_STATE/relay"  # what the last one said
    "$relay" "$NET_TEST_PREFIX$one" "$NET_TEST_PREFIX$other" "$@" >"$NET_TEST_STATE/relay" 2>&1 &
    relaying=$!
    for look in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
      grep -q ready "$NET_TEST_STATE/relay" && return
      kill -0 "$relaying" 2>/dev/null || break
      sleep 0.1
    done
    kill "$relaying" 2>/dev/null
    wait "$relaying"
    sleep 0.2
  done
  skip "$(cat "$NET_TEST_STATE/relay")"
}

# openmpi_reaches_hosts NETWORK: Open MPI's mpirun starts its daemons through `agent`, and they connect in that network. From
# version 5 on it is PRRTE, whose variables have names of their own.
openmpi_reaches_hosts() {
  export OMPI_MCA_plm_rsh_agent="$here/agent" PRTE_MCA_plm_ssh_agent="$here/agent"
  export OMPI_MCA_oob_tcp_if_include="$1" PRTE_MCA_prte_if_include="$1"
}
