/** What whoever prompts is answered: the turn that was accepted, one that another request has brought, or why there is none. */

import { CellaError } from '../../protocol/errors.ts';
import type { TurnInfo } from '../../protocol/turn.ts';
import type { AcceptedTurn } from './contract.ts';
import { infoOf, type TurnRecord } from './records.ts';
import { HostedTurn } from './turn.ts';

export function accepted(turn: HostedTurn, ahead: number, isJoined = false): AcceptedTurn {
  const { id, started, ended } = turn;
  return { turn: id, joined: isJoined, info: liveInfo(turn, ahead), started, ended };
}

/** As it is now. `ahead`: how many are before it. */
export function liveInfo({ record }: HostedTurn, ahead: number): TurnInfo {
  return { ...infoOf(record), ...(record.status === 'queued' ? { ahead } : {}) };
}

/** `known`: what the same key has brought before. `IDEMPOTENCY_CONFLICT` where something else was asked for with it. */
export function joined(known: HostedTurn | TurnRecord, asked: string, ahead: number): AcceptedTurn {
  const isLive = known instanceof HostedTurn;
  if ((isLive ? known.record : known).asked !== asked) throw conflict();
  return isLive ? accepted(known, ahead, true) : remembered(known);
}

function remembered(record: TurnRecord): AcceptedTurn {
  const info = infoOf(record);
  return {
    turn: record.id,
    joined: true,
    info,
    started: Promise.resolve(record.firstSeq ?? 0),
    ended: Promise.resolve(info),
  };
}

function conflict(): CellaError {
  return new CellaError('IDEMPOTENCY_CONFLICT', 'This Idempotency-Key came with another request before.');
}

export function busy(turn: string | undefined): CellaError {
  const details = turn === undefined ? {} : { turn };
  return new CellaError('TURN_RUNNING', 'The agent of this session has a turn already.', { details });
}

export function noAgents(): CellaError {
  return new CellaError('CAPABILITY_MISSING', 'This server runs no agents.', {
    advice: 'Start it with `cella serve`, and install an agent: `cella agents install claude`.',
  });
}
