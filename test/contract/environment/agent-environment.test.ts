/** Sandboxes of coding agents, in the sandbox and in Docker. */

import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openAgent } from '../../support/agents/agent-environment.ts';
import { canRunDocker } from '../../support/docker/docker.ts';
import { sharedEngineWithImage } from '../../support/docker/shared-docker.ts';
import { openContainer } from '../../support/kernels/container.ts';
import { openSession, scratchFolder } from '../../support/kernels/session.ts';
import { agentSandboxContract } from './agent-environment.ts';

describe('in the sandbox', () => {
  agentSandboxContract(async () => ({}), openSession);
});

describe.skipIf(!canRunDocker)('with Docker', () => {
  test('an image in which Node does not run is reported', async () => {
    const node = await scratchFolder();
    await chmod(node, 0o755);
    await writeFile(join(node, 'node'), '#!/bin/sh\necho libstdc++.so.6 is missing >&2; exit 127\n', { mode: 0o755 });
    const session = { executor: 'container' as const, engine: await sharedEngineWithImage() };
    const told = { code: 'IMAGE_UNUSABLE', message: expect.stringMatching(/libstdc\+\+.*cella images build/) };
    await expect(openAgent({ session, node })).rejects.toMatchObject(told);
  });

  test('a program that others cannot read because of the umask is reported, with the command that fixes it', async () => {
    const programs = await scratchFolder();
    await mkdir(join(programs, 'claude', '1.2.3'), { recursive: true });
    await chmod(programs, 0o755);
    await chmod(join(programs, 'claude'), 0o700);
    const session = { executor: 'container' as const, engine: await sharedEngineWithImage() };
    await expect(openAgent({ session, programs })).rejects.toMatchObject({
      code: 'AGENT_NOT_INSTALLED',
      message: expect.stringContaining(`cannot read ${join(programs, 'claude')}`),
      advice: expect.stringContaining(`chmod -R go+rX ${programs}`),
    });
  });

  agentSandboxContract(async () => ({ executor: 'container', engine: await sharedEngineWithImage() }), openContainer);
});

test('without isolation, there is none', async () => {
  const refused = { code: 'CAPABILITY_MISSING' };
  await expect(openAgent({ session: { sandbox: 'off' } })).rejects.toMatchObject(refused);
  await expect(openAgent({ session: { executor: 'in-process' } })).rejects.toMatchObject(refused);
});
