/** Cells that run a shell command, and the tag that says which line of a chat a cell came from. */

/**
 * Runs in a namespace of its own, inside the kernel, and with it in its sandbox. The shell tells where it was at its
 * end, and the kernel goes there. An interrupt is for the command: it has a second to end before it is killed, which is
 * less than the kernel has.
 */
const RUN = `
import fcntl, os, signal, time

def start():
    told, tell = os.pipe()
    high = fcntl.fcntl(tell, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(tell)
    try:
        pid = os.posix_spawn(
            "/bin/sh", ["sh", "-c", "trap 'command pwd -P >&3' EXIT; " + command], os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, high, 3)],
            setpgroup=0, setsigmask=[], setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
    except OSError as error:
        os.write(2, b"The shell could not be started: %s.\\n" % os.strerror(error.errno).encode())
        raise SystemExit(126) from None
    finally:
        os.close(high)
    return pid, told

def end(pid):
    try:
        return os.waitpid(pid, 0)[1]
    except KeyboardInterrupt:
        os.killpg(pid, signal.SIGINT)
    try:
        patience = time.monotonic() + 1
        while time.monotonic() < patience:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status
            time.sleep(0.005)
    except KeyboardInterrupt:
        pass
    os.killpg(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]

def follow(told):
    os.set_blocking(told, False)
    try:
        place = os.read(told, 65536)
        if place.endswith(b"\\n"):
            os.chdir(place[:-1])
    except OSError:
        pass

def main():
    try:
        pid, told = start()
        try:
            code = os.waitstatus_to_exitcode(end(pid))
            follow(told)
        finally:
            os.close(told)
    except KeyboardInterrupt:
        code = -signal.SIGINT
    except ChildProcessError:
        code = 0  # the code has taken its end for that of another child
    if code:
        raise SystemExit(int(code))

main()
`;

/** The command is data: it is quoted once, here, and no part of it is ever Python. */
export function shellCell(command: string): string {
  const quoted = JSON.stringify(command.toWellFormed());
  return tagCell('sh', command, `__import__("builtins").exec(${JSON.stringify(RUN)}, {"command": ${quoted}})`);
}

/** Prints the working directory as raw bytes. */
export const cwdCell = '# /cwd\n(lambda os: os.write(1, os.fsencode(os.getcwd()) + b"\\n"))(__import__("os"));';

/** The line that a person typed for this cell; undefined if it was not typed. */
export function cellToLine(code: string): string | undefined {
  if (code === cwdCell) return undefined;
  return taggedLine(code) ?? code;
}

/** `line` is the command without its slash and name. It is data, and ends up in a comment. */
export function tagCell(command: string, line: string, code: string): string {
  return `# /${command} ${JSON.stringify(line.toWellFormed())}\n${code}`;
}

const MARK = /^# \/(sh|deps|skills) ("[^\n]*")\n/;

/** The line that was typed; undefined if the code has no tag. */
function taggedLine(code: string): string | undefined {
  const [, command, quoted] = MARK.exec(code) ?? [];
  if (command === undefined || quoted === undefined) return undefined;
  try {
    return `/${command} ${JSON.parse(quoted)}`;
  } catch {
    return undefined; // somebody's own comment
  }
}
