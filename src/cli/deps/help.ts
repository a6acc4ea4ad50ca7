/** Help texts. */

export const help = {
  deps: `
Examples:
  $ cella deps add 'pandas>=2' httpx    install them, and keep them for all kernels
  $ cella deps list                     what is configured
  $ cella deps remove httpx             without it from the next kernel on
  $ cella deps sync                     install what is configured, as on another machine

Packages are installed on this machine as wheels, as an unprivileged user, with uv where there is
one and pip elsewhere. All agents of a storage have them.`,
  add: `
Examples:
  $ cella deps add pandas
  $ cella deps add 'pandas>=2,<3' 'httpx[http2]'
  $ cella deps add ours --index https://packages.example/simple
  $ cella deps add ours --no-index --wheels ./wheels

Those that cannot be installed are told with the installer's reason, the others are added; the exit
code is 1 then. A password in --index can be seen by other users of this machine: put it in
CELLA_INDEX instead. The code finds packages that came from the places it runs with, so give
\`cella run\` the same --index, --wheels and --no-index, or set CELLA_INDEX, CELLA_WHEELS and
CELLA_NO_INDEX for both.`,
  remove: `
Examples:
  $ cella deps remove pandas

What running code has imported stays until its kernel ends.`,
  list: `
Examples:
  $ cella deps list
  $ cella deps list --json | jq -r '.deps[]'`,
  sync: `
Examples:
  $ cella deps sync
  $ cella deps sync --redis redis://127.0.0.1:6379
  $ cella deps sync --executor container    for the Python of the image, and not of this machine

Each Python has packages of its own: give \`cella run\` the same --executor and --image, or set
CELLA_EXECUTOR and CELLA_IMAGE for both.`,
};
