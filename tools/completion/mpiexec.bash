# Completion of Tern's mpiexec and mpirun in bash. The options are those that `mpiexec -help` lists, so this file never lags
# behind. Words of other kinds are files; behind the program's name everything is.
_tern_mpiexec() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  case $before in
    -bind-to | --bind-to) COMPREPLY=($(compgen -W 'none hwthread core l3cache numa socket' -- "$word")); return ;;
    -map-by | --map-by) COMPREPLY=($(compgen -W 'slot core l3cache numa socket node ppr:' -- "$word")); return ;;
    -initial-errhandler | --initial-errhandler)
      COMPREPLY=($(compgen -W 'mpi_errors_are_fatal mpi_errors_abort mpi_errors_return' -- "$word")); return ;;
    -memory-alloc-kinds | --memory-alloc-kinds) COMPREPLY=($(compgen -W 'system mpi system,mpi' -- "$word")); return ;;
    -wdir | -wd | -output-filename) COMPREPLY=($(compgen -d -- "$word")); return ;;
  esac
  if [[ $word == -* ]]; then
    local options
    options=$("${COMP_WORDS[0]}" -help 2>/dev/null | sed -n 's/^  \(-[^ ]*\).*/\1/p' | tr ',' '\n')
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word") $(compgen -c -- "${word:-.}"))
  fi
}
complete -o filenames -F _tern_mpiexec mpiexec mpirun mpiexec.tern mpirun.tern
