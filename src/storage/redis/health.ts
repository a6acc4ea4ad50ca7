/** Reports settings of a Redis server that would lose data, for `cella doctor`. */

import { CellaError } from '../../protocol/errors.ts';
import { RedisConnection } from './connection.ts';
import { asList, asText, parseAddress } from './redis-context.ts';

const OLDEST = [6, 2] as const;

/** One line for each problem; nothing where all is well. Fails where the server cannot be reached. */
export async function redisProblems(url: string): Promise<string[]> {
  const connection = await RedisConnection.open(parseAddress(url, 'cella'));
  try {
    return await problemsOf(connection);
  } finally {
    await connection.close();
  }
}

export async function problemsOf(connection: RedisConnection): Promise<string[]> {
  const facts = factsIn(asText(await connection.send('INFO')));
  return [...versionProblems(facts), ...(await restartProblems(connection, facts)), ...evictionProblems(facts)].map(
    (problem) => `Redis at ${connection.address.where} ${problem}`,
  );
}

type ServerFacts = ReadonlyMap<string, string>;

function factsIn(info: string): ServerFacts {
  const lines = info.split(/\r?\n/).filter((line) => line.includes(':'));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]));
}

function versionProblems(facts: ServerFacts): string[] {
  const version = facts.get('redis_version') ?? '0.0';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [oldestMajor, oldestMinor] = OLDEST;
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return [];
  return [`has version ${version}, and Cella needs ${OLDEST.join('.')} or later. Install a newer one.`];
}

async function restartProblems(connection: RedisConnection, facts: ServerFacts): Promise<string[]> {
  if (facts.get('aof_enabled') === '1') return [];
  const advice = 'Set `appendonly yes` in its configuration.';
  const saves = await savePoints(connection);
  if (saves === undefined) {
    return [`keeps no log of what is written to it, and does not tell whether it saves at all. ${advice}`];
  }
  if (saves === '') return [`would lose everything when it restarts: it neither keeps a log nor saves. ${advice}`];
  return [`would lose the last minutes when it crashes: it only saves now and then (save ${saves}). ${advice}`];
}

/** Undefined where the server does not let this user ask. */
async function savePoints(connection: RedisConnection): Promise<string | undefined> {
  try {
    const [, value] = asList(await connection.send('CONFIG', 'GET', 'save'));
    return asText(value);
  } catch (error) {
    // Hosted servers refuse CONFIG; one that is gone is no answer to the question.
    if (error instanceof CellaError && error.code === 'STORAGE_FAILED') return undefined;
    if (error instanceof CellaError && String(error.details?.reason).startsWith('NOPERM')) return undefined;
    throw error;
  }
}

function evictionProblems(facts: ServerFacts): string[] {
  const policy = facts.get('maxmemory_policy') ?? 'noeviction';
  if (Number(facts.get('maxmemory') ?? 0) === 0 || policy === 'noeviction') return [];
  return [
    `throws keys away when its memory is full (maxmemory-policy ${policy}). Set \`maxmemory-policy noeviction\`.`,
  ];
}
