# Hosts that are reached by ssh (to be sourced after hosts.sh, and after hosts_begin). Each has an sshd of its own: on the
# address of its namespace, with keys made here, in a process and a mount namespace of its own. Nothing of the machine's own
# sshd, keys and known hosts is used or changed.
#
#   ssh_begin           keys and configurations; skips where there is no sshd
#   ssh_host NAME       starts sshd there
#   from HOST COMMAND.. runs there with the names and the configuration of ssh of these hosts, and no other launcher in PATH
#   on_host_now NAME    the processes there, but for the sshd that listens

sshd=/usr/sbin/sshd

ssh_begin() {
  [ -x "$sshd" ] || skip "there is no sshd (Debian package openssh-server)"
  ssh_state=$NET_TEST_STATE/ssh
  mkdir -p "$ssh_state" /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f "$ssh_state/user" && ssh-keygen -q -t ed25519 -N '' -f "$ssh_state/host" || die "no keys"
  cp "$ssh_state/user.pub" "$ssh_state/authorized"
  cat >"$ssh_state/sshd_config" <<END
HostKey $ssh_state/host
AuthorizedKeysFile $ssh_state/authorized
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 200
END
  cat >"$ssh_state/ssh_config" <<END
Host *
  User root
  IdentityFile $ssh_state/user
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile $ssh_state/known
  GlobalKnownHostsFile /dev/null
END
  : >"$ssh_state/known"
  # Other launchers that are installed are not to be found.
  # What the user's shell does at its start, which may take long and wait for others of its kind, is none of these tests.
  startup=$(for name in .bashrc .profile .bash_profile .zshenv .ssh/rc; do [ ! -e "$HOME/$name" ] || echo "$HOME/$name"; done)
  hidden=$(for name in srun prterun mpirun.openmpi mpiexec.hydra mpiexec.mpich; do
    file=$(command -v $name) && readlink -f "$file"
  done)
}

# $1: an address that this host has in the file $NET_TEST_STATE/names.
ssh_host() {
  echo "$1 $(cut -d' ' -f1,2 "$ssh_state/host.pub")" >>"$ssh_state/known"
  on "$1" unshare -m -p -f --mount-proc --propagation private sh -c '
    mount --bind "$1" /etc/hosts && mount --bind "$2" /etc/ssh/ssh_config && mount -t tmpfs none /dev/shm &&
    for file in $4; do mount --bind /dev/null "$file"; done && exec "$0" -D -e -f "$3"' \
    "$sshd" "$NET_TEST_STATE/names" "$ssh_state/ssh_config" "$ssh_state/sshd_config" "$hidden $startup" \
    >"$ssh_state/$1.log" 2>&1 &
}

# Until every sshd listens.
ssh_wait() {
  for name in "$@"; do
    tries=0
    until grep -q "Server listening" "$ssh_state/$name.log"; do
      tries=$((tries + 1))
      [ $tries -lt 200 ] || { cat "$ssh_state/$name.log"; die "no sshd on $name"; }
      sleep 0.05
    done
  done
}

from() {
  start=$1
  shift
  on "$start" unshare -m sh -c 'mount --make-rprivate / && mount --bind "$0" /etc/hosts &&
    mount --bind "$1" /etc/ssh/ssh_config || exit 99
    for file in $2; do mount --bind /dev/null "$file" || exit 99; done; shift 2; exec "$@"' \
    "$NET_TEST_STATE/names" "$ssh_state/ssh_config" "$hidden" "$@"
}

# Its processes, but for the sshd that listens and what has started that.
on_host_now() {
  for process in $(ip netns pids "$NET_TEST_PREFIX$1"); do
    words=$({ tr '\0' ' ' <"/proc/$process/cmdline"; } 2>/dev/null)
    case $words in
      "" | unshare* | *"[listener]"*) ;;
      *) echo "$process $words" ;;
    esac
  done
}
