import { expect, test } from 'vitest';
import { Model } from '../support/model.ts';
import { agentDaemon, bundledRunner, eventsOf, setKey, prompt, decide } from '../support/agent-daemon.ts';

test('it', async () => {
  await using model = await Model.start();
  console.time('bundle');
  const runner = await bundledRunner();
  console.timeEnd('bundle');
  const daemon = await agentDaemon({ modelUrl: model.url, runner, programs: '/tmp/turn-programs', log: { level: 'info', file: '/tmp/turn.log' } });
  await setKey(daemon);
  const session = await daemon.session({ agentKey: 'a' });
  console.time('prompt');
  const answer = await prompt(daemon, session.id, '#plain');
  console.timeEnd('prompt');
  console.log(answer.text);
  console.log(JSON.stringify(await eventsOf(daemon, session.id), null, 1).slice(0, 6000));
  expect(answer.json.status).toBe('completed');
  console.time('second');
  const second = prompt(daemon, session.id, '#write /agent/workspace/x.txt hey');
  console.log(await decide(daemon, session.id, { decision: 'allow' }));
  console.log((await second).text);
  console.timeEnd('second');
  console.log((await daemon.call(`GET /v1/sessions/${session.id}/transcript`)).text.slice(0, 500));
  console.log((await daemon.call(`GET /v1/sessions/${session.id}/usage`)).text);
});
