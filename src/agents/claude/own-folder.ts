/**
 * What sets Claude's program up, in a folder of one turn. It lies outside of the session's home: code of the kernel
 * writes there, and could put variables, hooks and servers into what the program reads. Conversations alone stay in the home.
 */

import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AgentSetup } from '../contract.ts';
import { makeFolder } from './home-files.ts';

const CONVERSATIONS = 'projects';
const ARGV_WORD = 'cella-argv';

export interface OwnFolder extends AsyncDisposable {
  /** The program's own: empty, but for a link to the conversations. */
  readonly configDir: string;
  /** For the skills and commands of the profile. */
  readonly profileDir: string;
  /** The home that the program itself has: empty. What shells and git read in a home by themselves would run unasked. */
  readonly emptyHome: string;
  /** What its commands begin with, by which they have the session's home. */
  readonly prelude: string;
  /** What its commands, hooks and stdio servers are run by. */
  readonly shellPrefix: string;
}

/**
 * What the program starts runs through this: without the program's own variables, which let a child speak to it, and in a
 * Landlock domain of its own, from which neither the program's memory and descriptors nor the runner's can be read: they
 * hold a key. Any domain does that, so this one forbids nothing but block devices, and keeps files movable (REFER).
 * Where there is no Landlock, the command runs without.
 */
const CONFINE = `
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*words):
    return libc.syscall(*[ctypes.c_long(word) if isinstance(word, int) else word for word in words])
def fail(what):
    sys.exit("cella: the command could not be confined: %s: %s" % (what, os.strerror(ctypes.get_errno())))
CREATE, ADD, RESTRICT = 444, 445, 446
MAKE_BLOCK, REFER = 1 << 11, 1 << 13
version = call(CREATE, None, 0, 1)
if version > 0:
    handled = MAKE_BLOCK | (REFER if version > 1 else 0)
    ruleset = call(CREATE, ctypes.byref(ctypes.c_uint64(handled)), 8, 0)
    if ruleset < 0:
        fail("landlock_create_ruleset")
    if version > 1:
        root = os.open("/", os.O_PATH | os.O_DIRECTORY)
        rule = REFER.to_bytes(8, sys.byteorder) + root.to_bytes(4, sys.byteorder)
        if call(ADD, ruleset, 1, rule, 0) < 0:
            fail("landlock_add_rule")
        os.close(root)
    if libc.prctl(38, 1, 0, 0, 0) < 0 or call(RESTRICT, ruleset, 0) < 0:
        fail("landlock_restrict_self")
    os.close(ruleset)
kept = {"CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PID"}
own = lambda name: name.startswith(("ANTHROPIC_", "CLAUDE_")) and name not in kept
word, _, rest = sys.argv[1].partition(" ")
shell = "bash" if os.path.exists("/bin/bash") else "sh"
argv = bytes.fromhex(rest).decode().split("\\0") if word == "${ARGV_WORD}" else [shell, "-c", sys.argv[1]]
try:
    os.execvpe(argv[0], argv, {name: value for name, value in os.environ.items() if not own(name)})
except OSError as error:
    sys.exit("%s: %s" % (argv[0], error.strerror))
`;

/** A program and its arguments as one that takes them: the program would join them with spaces, and a shell would take them apart. */
export function confinedArgv(argv: readonly string[]): { readonly command: string; readonly args: readonly string[] } {
  return { command: ARGV_WORD, args: [Buffer.from(argv.join('\0')).toString('hex')] };
}

/** Where conversations are kept between turns. */
export function conversationsDir({ homeDir }: Pick<AgentSetup, 'homeDir'>): string {
  return join(homeDir, '.claude', CONVERSATIONS);
}

/** In the folder for what is passing, which every enclosure has for itself. */
export async function makeOwnFolder(setup: Pick<AgentSetup, 'homeDir'>): Promise<OwnFolder> {
  const conversations = conversationsDir(setup);
  await makeFolder(setup.homeDir, conversations);
  const folder = await mkdtemp(join(tmpdir(), 'cella-claude-'));
  const [configDir, profileDir] = [join(folder, 'config'), join(folder, 'profile')];
  const [emptyHome, prelude] = [join(folder, 'home'), join(folder, 'prelude.sh')];
  const [shellPrefix, confine] = [join(folder, 'confine'), join(folder, 'confine.py')];
  await Promise.all([
    mkdir(configDir),
    mkdir(emptyHome),
    writeFile(prelude, `export HOME=${quoted(setup.homeDir)}\n`),
    writeFile(confine, CONFINE),
    // Isolated from variables and packages that a session has for its own Python.
    writeFile(shellPrefix, `#!/bin/sh\nexec python3 -IS ${quoted(confine)} "$@"\n`, { mode: 0o755 }),
  ]);
  await symlink(conversations, join(configDir, CONVERSATIONS));
  // What a program that was killed has left half written goes with the rest.
  const remove = () => rm(folder, { recursive: true, force: true, maxRetries: 3 });
  return { configDir, profileDir, emptyHome, prelude, shellPrefix, [Symbol.asyncDispose]: remove };
}

/** One word for a shell, whatever is in it. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
