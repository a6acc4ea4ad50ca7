/** The key of the gateway is in nothing that Docker knows or keeps of an agent's container, also where what is in it crashes. */

import { dirname, join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { agentDaemon, bundledRunner, KEY } from '../support/agent-daemon.ts';
import { canariesIn } from '../support/canary.ts';
import { Administrator } from '../support/containers.ts';
import { crashInMidTurn } from '../support/crashes.ts';
import { canRunDocker } from '../support/docker.ts';
import { Model } from '../support/model.ts';
import { scratchFolder } from '../support/session.ts';
import { sharedProgram } from '../support/shared-agents.ts';
import { shareCache } from '../support/shared-cache.ts';
import { sharedEngineWithImage } from '../support/shared-docker.ts';

const stack = new AsyncDisposableStack();
afterAll(() => stack.disposeAsync());

describe.skipIf(!canRunDocker)('with Docker', { timeout: 300_000 }, () => {
  test('no setting, log, file or dump of a container holds the key', async () => {
    const [engine, program, runner] = await Promise.all([
      sharedEngineWithImage(),
      sharedProgram('claude'),
      bundledRunner(),
    ]);
    const model = stack.use(await Model.start());
    const dataDir = shareCache(await scratchFolder());
    const programs = dirname(dirname(program));
    const daemon = stack.use(
      await agentDaemon({ modelUrl: model.url, runner, programs, dataDir, session: { engine } }),
    );
    const { id } = await daemon.session({ agentKey: 'crashes', executor: 'container' });
    const administrator = await Administrator.of(engine);
    const known = async () => {
      const containers = await administrator.containersOf(dataDir);
      expect(containers).not.toEqual([]);
      const told = await Promise.all(containers.map((container) => administrator.allOf(container.Id)));
      const texts = Object.fromEntries(told.map(({ text }, index) => [`container ${index}`, text]));
      expect(canariesIn(KEY, { texts, folders: told.map(({ folder }) => folder) })).toEqual([]);
    };
    const parts = { daemon, model, session: id, dataDir, program: 'claude-agent-sdk-linux' };
    await crashInMidTurn({ ...parts, more: known });
    expect(model.seen.map(({ key }) => key)).toContain(KEY);
    expect(canariesIn(KEY, { folders: [join(runner)] })).toEqual([]);
  });
});
