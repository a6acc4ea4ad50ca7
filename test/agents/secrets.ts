/**
 * What an agent is trusted with, and what it starts is not: session tokens, keys, and what a profile names for its MCP
 * servers. They are in no arguments, which every user of a machine can read, and out of reach of commands, hooks and servers.
 */

import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { omitUndefined } from '../../src/lib/values.ts';
import { LyingModel, toolUse } from '../support/agents/lying-model.ts';
import { sharedProgram } from '../support/agents/shared-agents.ts';
import { canRunDocker } from '../support/docker/docker.ts';
import { sharedEngineWithImage } from '../support/docker/shared-docker.ts';
import { descendants } from '../support/processes/processes.ts';
import { KEY } from '../support/servers/agent-server.ts';
import type { AgentEnvironment } from './agent-environment.ts';
import { type Served, servedEnvironment } from './served.ts';

const HEADER = 'header-canary-81f2';
const VARIABLE = 'variable-canary-77ac';
const PROBE = new URL('../support/agents/mcp-probe.mjs', import.meta.url);

/** Looks wherever a program can look, and writes what it finds; the words are put together here, so that it does not find itself. */
const LOOK = `
import json, os, re, sys
words = [("c" "st_").encode() + rb"[A-Za-z0-9_-]{8,}", ("sk-" "ant-can").encode() + rb"[a-z0-9-]+", ("header-" "can").encode() + rb"[a-z0-9-]+"]
if sys.argv[1] != "server":
    words.append(("variable-" "can").encode() + rb"[a-z0-9-]+")
pattern = re.compile(b"|".join(words))
found, seen, opened = [], [], []
def look(where, data):
    found.extend([where, match.decode()] for match in pattern.findall(data)[:3])
look("env", repr(dict(os.environ)).encode())
own = os.getpid()
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    for part in ["environ", "cmdline"]:
        try:
            data = open("/proc/%s/%s" % (pid, part), "rb").read()
        except OSError:
            continue
        if part == "cmdline":
            seen.append(data.decode(errors="replace"))
        look("%s of %s" % (part, pid), data)
    try:
        if int(pid) == own:
            continue
        with open("/proc/%s/mem" % pid, "rb", 0) as memory, open("/proc/%s/maps" % pid) as maps:
            opened.append(seen[-1])
            for line in maps:
                words = line.split()
                start, end = [int(one, 16) for one in words[0].split("-")]
                if words[1].startswith("rw") and end - start < 1 << 30:
                    memory.seek(start)
                    look("memory of %s" % pid, memory.read(end - start))
    except (OSError, ValueError, OverflowError):
        pass
json.dump({"found": found, "seen": seen, "opened": opened}, open("%s/%s.json" % (sys.argv[2], sys.argv[1]), "w"))
`;

interface Look {
  readonly found: readonly (readonly [where: string, what: string])[];
  readonly seen: readonly string[];
  readonly opened: readonly string[];
}

type Where = Pick<Served, 'executor' | 'runner'> &
  Required<Pick<Served, 'keys'>> & {
    /** Without one, all that keeps secrets from what the agent starts is what the agent does itself. */
    readonly sandbox?: 'off';
  };

export function agentSecrets(name: string, where: Where): void {
  describe(name, { timeout: 120_000 }, () => secretTests(where));
}

function secretTests({ keys, executor, runner, ...where }: Where): void {
  // Linux shows the variables of all processes to root, whatever domain it is in: docs/gateway.md says so.
  const isAllPowerful = where.sandbox === 'off' && process.getuid?.() === 0;
  const isOfServer = (place: string, what: string) => place.startsWith('environ of ') && what === VARIABLE;
  let model: LyingModel;
  let place: AgentEnvironment;
  beforeAll(async () => {
    model = await LyingModel.start();
    const program = await sharedProgram('claude');
    const sandbox = keys === 'gateway' ? where : { sandbox: { network: 'host' as const }, ...where };
    const session = executor === 'container' ? { session: { engine: await sharedEngineWithImage() } } : {};
    const given = { ...sandbox, ...session, ...omitUndefined({ runner }) };
    const open = servedEnvironment({ executor, program, process: 'claude-agent-sdk-linux', keys, ...given });
    place = await open({ modelUrl: model.url, profile: profileOf });
    await place.run(`open('look.py', 'w').write(${JSON.stringify(LOOK)})`);
    await place.run(`open('probe.mjs', 'w').write(${JSON.stringify(await readFile(PROBE, 'utf8'))})`);
  }, 240_000);
  afterAll(async () => {
    await place?.[Symbol.asyncDispose]();
    await model?.[Symbol.asyncDispose]();
  });

  const check = test.skipIf(executor === 'container' && !canRunDocker);

  check('no argument of any process and no variable of the agent’s holds a secret', async () => {
    model.script.push({ blocks: [toolUse('Bash', { command: 'true', description: 'Nothing' })] });
    let shown: { readonly command: string; readonly variables: string }[] = [];
    const { status } = await place.prompt('Go.', {
      profiled: true,
      permit: async () => {
        shown = descendants(process.pid).map(({ pid }) => ({
          command: read(pid, 'cmdline'),
          variables: read(pid, 'environ'),
        }));
        return { allowed: false };
      },
    });
    expect(status).toBe('completed');
    // Those of a container are the engine's.
    const isShown = shown.some(({ command }) => command.includes('claude-agent-sdk-linux'));
    expect(isShown).toBe(executor === 'subprocess');
    for (const { command, variables } of shown) {
      for (const secret of [/cst_\w{8}/, KEY, HEADER]) {
        expect(command).not.toMatch(secret);
        expect(variables).not.toMatch(secret);
      }
      expect(command).not.toContain(VARIABLE);
    }
  });

  check(
    'a command, a hook and a stdio server see none: not in variables, arguments or the memory of others',
    async () => {
      model.script.push(
        { blocks: [toolUse('Skill', { skill: 'profile:watched' })] },
        { blocks: [toolUse('Bash', { command: `python3 look.py command ${place.inside}`, description: 'Looks' })] },
        { blocks: [toolUse('mcp__probe__echo', { text: 'ping' })] },
      );
      const { status, events } = await place.prompt('Go.', { profiled: true, permit: async () => ({ allowed: true }) });
      expect(status).toBe('completed');
      expect(JSON.stringify(events)).toContain('echo: ping');
      for (const who of ['command', 'hook', 'server']) {
        const look: Look = JSON.parse(await readFile(join(place.workspace, `${who}.json`), 'utf8'));
        expect(look.seen.some((command) => command.includes('claude-agent-sdk-linux'))).toBe(true);
        expect(look.opened.filter((command) => /claude-agent-sdk-linux|cella-runner/.test(command))).toEqual([]);
        const found = look.found.filter(([where, what]) => !(isAllPowerful && isOfServer(where, what)));
        expect({ who, found }).toEqual({ who, found: [] });
      }
    },
  );
}

function profileOf({ workspace, node }: { readonly workspace: string; readonly node: string }) {
  const hook = `{ "type": "command", "command": "python3 ${workspace}/look.py hook ${workspace}" }`;
  const skill = [
    '---\nname: watched\ndescription: Has a hook\nhooks:\n  PreToolUse:\n    - matcher: "Bash"\n      hooks:',
    `        - ${hook}\n---\nNothing.\n`,
  ].join('\n');
  const script = `python3 ${workspace}/look.py server ${workspace}; exec "$@"`;
  return {
    skills: { watched: skill },
    mcpServers: {
      web: { type: 'http' as const, url: 'http://127.0.0.1:9/mcp', headers: { Authorization: `Bearer ${HEADER}` } },
      probe: {
        type: 'stdio' as const,
        argv: ['sh', '-c', script, `it's "$(touch x)"`, node, `${workspace}/probe.mjs`],
        env: { CANARY: VARIABLE },
      },
    },
  };
}

function read(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1');
  } catch {
    return ''; // it has ended
  }
}
