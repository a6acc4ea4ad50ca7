/**
 * `npm run test:soak [-- PART [COUNT]]`: what takes too long for `npm test`, run by hand. Each part tells how it went and
 * fails where a promise is not kept. Without a part all of them run, one after the other.
 */

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Cella } from '../support/cli/command.ts';
import { RedisServer } from '../support/servers/redis.ts';
import { fanoutSoak } from './fanout.ts';
import { killSoak } from './kill.ts';
import { loadSoak } from './load.ts';
import { serverKills } from './server-kills.ts';

interface Part {
  readonly about: string;
  /** What its COUNT is, and where none is given. */
  readonly count: number;
  readonly counts: string;
  run(count: number): Promise<void>;
}

const python = process.env.CELLA_PYTHON;
const flags = python === undefined ? [] : ['--python', python];
const progress = (line: string) => console.log(line);

const parts: Readonly<Record<string, Part>> = {
  kernels: {
    about: 'kernel, pid 1, template and host are killed while they count',
    count: 200,
    counts: 'rounds',
    async run(rounds) {
      using cella = new Cella();
      const killed = await killSoak({ rounds, dataDir: cella.dataDir, python, random: Math.random, progress });
      console.log(`${rounds} rounds, every counter in its bounds. Killed: ${JSON.stringify(killed)}`);
    },
  },
  load: {
    about: '500 sessions of a server with 50 clients at work',
    count: 60,
    counts: 'seconds',
    async run(seconds) {
      using cella = new Cella();
      const report = await loadSoak({ cella, sessions: 500, clients: 50, seconds, flags, progress });
      console.log(`No error, nothing lost, nothing twice: ${JSON.stringify(report)}`);
      promise(report.growth < 0.1, 'in the second half the memory of the server grows by less than a tenth');
    },
  },
  fanout: {
    about: 'more than 1,000 events a second to each of 20 clients',
    count: 30,
    counts: 'seconds',
    async run(seconds) {
      using cella = new Cella();
      const report = await fanoutSoak({ cella, followers: 20, perSecond: 1100, seconds, flags, progress });
      console.log(`Every one in order and once: ${JSON.stringify(report)}`);
      promise(report.slowestPerSecond >= 1000, 'each gets 1,000 a second');
    },
  },
  kills: {
    about: 'a server is killed under load and started again, with files and with Redis',
    count: 1000,
    counts: 'rounds for each storage',
    async run(rounds) {
      await using redis = await RedisServer.start();
      for (const storage of [[], ['--redis', redis.url]]) {
        using cella = new Cella();
        console.log(storage.length === 0 ? 'in files' : 'in Redis');
        const options = { cella, rounds, flags: [...flags, ...storage], random: Math.random, progress };
        console.log(`Nothing lost, nothing twice: ${JSON.stringify(await serverKills(options))}`);
      }
    },
  },
};

function promise(kept: boolean, what: string): void {
  if (!kept) throw new Error(`Not so: ${what}.`);
}

const [name, count] = process.argv.slice(2);
const chosen = name === undefined ? Object.values(parts) : [parts[name]];
const given = count === undefined ? undefined : Number(count);
if (chosen.includes(undefined) || (given !== undefined && !(Number.isSafeInteger(given) && given > 0))) {
  console.error('npm run test:soak -- PART [COUNT]');
  for (const [one, part] of Object.entries(parts)) {
    console.error(`  ${one.padEnd(8)} ${part.about} (${part.count} ${part.counts})`);
  }
  process.exit(2);
}
const build = fileURLToPath(new URL('../../scripts/build.mjs', import.meta.url));
if (spawnSync(process.execPath, [build, '--if-stale'], { stdio: 'inherit' }).status !== 0) process.exit(1);
for (const part of chosen) await part?.run(given ?? part.count);
