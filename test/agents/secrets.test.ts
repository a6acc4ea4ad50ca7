/** The secrets of Claude on a root host: in each place where it can run, and in both key modes. */

import { agentSecrets } from './secrets.ts';

for (const keys of ['gateway', 'just-in-time'] as const) {
  const how = keys === 'gateway' ? '' : ', with its key just in time';
  agentSecrets(`Claude in the sandbox${how}`, { keys, executor: 'subprocess' });
  agentSecrets(`Claude in a container${how}`, { keys, executor: 'container' });
  agentSecrets(`Claude without a sandbox${how}`, { keys, executor: 'subprocess', sandbox: 'off' });
}
