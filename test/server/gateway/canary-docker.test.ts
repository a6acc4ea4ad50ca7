/** The key of the gateway is in nothing that Docker knows or keeps of an agent's container, also where what is in it crashes. */

import { dirname, join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { Model } from '../../support/agents/model.ts';
import { sharedProgram } from '../../support/agents/shared-agents.ts';
import { Administrator } from '../../support/docker/containers.ts';
import { canRunDocker } from '../../support/docker/docker.ts';
import { sharedEngineWithImage } from '../../support/docker/shared-docker.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { canariesIn } from '../../support/processes/canary.ts';
import { shareCache } from '../../support/run/shared-cache.ts';
import { agentServer, bundledRunner, KEY } from '../../support/servers/agent-server.ts';
import { crashInMidTurn } from './crashes.ts';

const stack = new AsyncDisposableStack();
afterAll(() => stack.disposeAsync());

describe.skipIf(!canRunDocker)('with Docker', { timeout: 300_000 }, () => {
  test('no setting, log, file or dump of a container contains the key', async () => {
    const [engine, program, runner] = await Promise.all([
      sharedEngineWithImage(),
      sharedProgram('claude'),
      bundledRunner(),
    ]);
    const model = stack.use(await Model.start());
    const dataDir = shareCache(await scratchFolder());
    const programs = dirname(dirname(program));
    const server = stack.use(
      await agentServer({ modelUrl: model.url, runner, programs, dataDir, session: { engine } }),
    );
    const { id } = await server.session({ agentKey: 'crashes', executor: 'container' });
    const administrator = await Administrator.of(engine);
    const known = async () => {
      const containers = await administrator.containersOf(dataDir);
      expect(containers).not.toEqual([]);
      const told = await Promise.all(containers.map((container) => administrator.allOf(container.Id)));
      const texts = Object.fromEntries(told.map(({ text }, index) => [`container ${index}`, text]));
      expect(canariesIn(KEY, { texts, folders: told.map(({ folder }) => folder) })).toEqual([]);
    };
    const parts = { server, model, session: id, dataDir, program: 'claude-agent-sdk-linux' };
    await crashInMidTurn({ ...parts, more: known });
    expect(model.seen.map(({ key }) => key)).toContain(KEY);
    expect(canariesIn(KEY, { folders: [join(runner)] })).toEqual([]);
  });
});
