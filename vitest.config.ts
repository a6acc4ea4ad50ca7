/** Three projects: `unit` beside the source, `system` across processes, `user` on an ordinary user's host. */

import { readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/support/run/longest-first.ts';

/** Four at a time, also on two cores: they wait for other processes a good part of their time. */
const crossing = {
  testTimeout: 60_000,
  hookTimeout: 60_000,
  maxWorkers: 4,
  isolate: true,
  // Node reads the sources itself, from what NODE_COMPILE_CACHE keeps of them: no file waits for vite to transform them.
  experimental: { viteModuleRunner: false, nodeLoader: false },
  setupFiles: ['test/support/run/own-imports.ts'],
  // What is polled for comes from other processes: a machine that is slow is no failure.
  expect: { poll: { timeout: 30_000 } },
};
/** What only a root host can show lies here; scripts/test.mjs says so where it cannot run. */
const rootOnly = process.getuid?.() === 0 ? [] : ['test/hosts/root/**'];

/** As scripts/test.mjs says: in a plain run of all suites these are left to `npm run test:all`. */
const long: string[] =
  process.env.CELLA_TEST_ALL === '0'
    ? JSON.parse(readFileSync(new URL('./test/long.json', import.meta.url), 'utf8'))
    : [];

export default defineConfig({
  cacheDir: '.cache/vite',
  test: {
    cache: false,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts', 'bench/**/*.test.ts'],
          isolate: false,
          maxWorkers: 2,
          testTimeout: 60_000,
          expect: { poll: { timeout: 30_000 } },
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'system',
          include: ['test/**/*.test.ts'],
          exclude: ['test/hosts/user/**', 'test/soak/**', ...rootOnly, ...long],
          globalSetup: ['run/cache', 'docker/docker', 'agents/agents'].map((name) => `test/support/${name}-setup.ts`),
          sequence: { groupOrder: 1 },
          ...crossing,
        },
      },
      {
        test: {
          name: 'user',
          include: ['test/hosts/user/**/*.test.ts'],
          exclude: long,
          globalSetup: ['test/support/agents/agents-setup.ts', 'test/support/run/cache-setup.ts'],
          sequence: { groupOrder: 2 },
          ...crossing,
        },
      },
    ],
  },
});
