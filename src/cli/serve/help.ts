/** Help texts. */

export const help = {
  serve: `
Examples:
  $ cella serve                                       at http://127.0.0.1:7710, for this machine
  $ cella serve --detach                              the same, in the background
  $ cella serve status                                whether one runs, where, and how it does
  $ cella serve stop                                  end it in good order
  $ cella serve --port 8080 --data ./data             elsewhere
  $ cella serve --storage redis --redis redis://127.0.0.1:6379
  $ cella serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
  $ cella serve --host 10.0.0.5 --insecure-http --allow-host cella.example    behind a proxy

On its first start it makes an admin and a token, in the file admin-token of the data folder, and
prints a link to log in with, which works once. \`cella users login\` makes another. Sessions, events
and users are kept in storage: after a restart everything is there. docs/server.md tells the rest.

Every flag can stand in config.yaml of the data folder: \`max-kernels: 8\` is --max-kernels 8.

--members-may, for users who are no administrators, any of these separated by commas:
  in-process    the executor that runs in the server itself: for trusted code
  unsandboxed   code without a sandbox
  network       the network of this machine, and lists of hosts
  folders       folders of this machine
On a server that runs as root, folders, unsandboxed and in-process amount to root for every member.

SIGTERM or Ctrl-C ends it in good order: no new work, running code has --grace seconds, kernels are
saved, clients are told. A second one ends it at once. Logs are JSON, one line each, on stderr; with
--detach in daemon.log of the data folder.

Exit codes:
  0      it was ended in good order; with --detach, it is ready
  1      it could not start or go on, or was ended at once
  2      this command line, or the config file, is wrong`,
  stop: `
Examples:
  $ cella serve stop                  running code has the server's --grace to end
  $ cella serve stop --now            it is interrupted at once; names are saved all the same
  $ cella serve stop --timeout 300    wait longer for its end

It asks the server on the data folder by its socket, and waits until that has gone. No process gets a
signal.

Exit codes:
  0      it has ended and saved everything, or none ran
  1      it has ended and could not save everything, or did not tell; or it is still there after
         --timeout seconds`,
  status: `
Examples:
  $ cella serve status
  $ cella serve status --json | jq .kernels

Exit codes:
  0      a server runs on the data folder, and answers
  1      a process has the folder and does not answer: it starts, ends, or hangs
  3      none runs`,
};
