/** Help texts. */

export const help = {
  image: `
Examples:
  $ cella image build                      from the Python of this machine; no registry is asked
  $ cella image build --base python:3.12   from an image that is here already
  $ cella image list
  $ cella image remove cella-python:local

Kernels in containers (--executor container) run in such an image. See docs/images.md.`,
  build: `
Examples:
  $ cella image build
  $ cella image build --with make --with curl      two more programs of this machine
  $ cella image build --python /opt/py/bin/python3 --name team-python:2
  $ cella image build --no-packages                Python and its standard library alone
  $ cella image build --base python:3.12-slim      pulled before with \`docker pull\`

The image gets this Python, its standard library and packages, a shell, the common programs and every
library that they need. Files that not everybody may read, homes and keys stay out. The name
cella-python:local is the one that \`--executor container\` takes where no --image is given.`,
  list: `
Examples:
  $ cella image list
  $ cella image list --json | jq -r '.images[].name'`,
  remove: `
Examples:
  $ cella image remove cella-python:local

Only images that Cella has made are removed. One that a container uses stays, and is told.`,
};
