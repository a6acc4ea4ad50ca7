/** The order of the files of a run: those that take longest first, so that no worker is left alone with one at the end. */

import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Twenty seconds or more on two cores, the longest first. The others follow by their size, as vitest has them. */
const LONGEST = [
  'test/agents/lying-provider.test.ts',
  'test/contract/executor/container.test.ts',
  'test/contract/state/subprocess.test.ts',
  'test/contract/executor/in-process.test.ts',
  'test/matrix/container-file.test.ts',
  'test/matrix/container-redis.test.ts',
  'test/contract/namespaces/subprocess.test.ts',
  'test/matrix/in-process-file.test.ts',
  'test/matrix/in-process-redis.test.ts',
  'test/contract/deps/deps.test.ts',
  'test/server/stalls/moderate.test.ts',
  'test/server/stalls/namespaces.test.ts',
  'test/server/stalls/redis.test.ts',
  'test/faults/kernel/state.test.ts',
  'test/server/agents/claude.test.ts',
  'test/agents/claude-sandbox.test.ts',
  'test/contract/executor/subprocess.test.ts',
  'test/cli/run.test.ts',
  'test/faults/kernel/in-process.test.ts',
  'test/cli/namespaces.test.ts',
  'test/faults/kernel/protocol.test.ts',
  'test/faults/container/container.test.ts',
  'test/cli/executors.test.ts',
  'test/server/lifecycle/kills.test.ts',
  'test/cli/chat/chat.test.ts',
  'test/matrix/subprocess-redis.test.ts',
  'test/matrix/subprocess-file.test.ts',
  'test/escape/subprocess.test.ts',
  'test/contract/images/images.test.ts',
  'test/mcp/process.test.ts',
  'test/cli/state.test.ts',
  'test/cli/backend-data-folder.test.ts',
  'test/server/agents/runners.test.ts',
  'test/agents/claude-docker.test.ts',
  'test/agents/secrets.test.ts',
  'test/agents/hostile-folders.test.ts',
  'test/docs/examples.test.ts',
  'test/faults/kernel/layers.test.ts',
  'test/python/units.test.ts',
  'test/mcp/clients.test.ts',
  'test/hosts/user/agents.test.ts',
  'test/hosts/user/state.test.ts',
  'test/hosts/user/deps.test.ts',
  'test/hosts/user/escape.test.ts',
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((one, other) => rank(one) - rank(other));
  }
}

function rank({ moduleId }: TestSpecification): number {
  const place = LONGEST.findIndex((file) => moduleId.endsWith(`/${file}`));
  return place < 0 ? LONGEST.length : place;
}
