#!/bin/sh
# What stands for ssh in pods without sshd: kubexec.sh POD COMMAND... The command is a line for a shell, as ssh takes it.
# For OMPI_MCA_plm_rsh_agent or HYDRA_LAUNCHER_EXEC. The option -i passes standard input on, which mpiexec needs.
pod=$1
shift
exec "${KUBECTL:-kubectl}" exec -i "$pod" -- /bin/sh -c "$*"
