/** Errors across a connection: a code of ours and its advice go along, a stack or a cause never does. */

import { z } from 'zod';
import { CellaError, type ErrorCode, errorCodes } from '../errors.ts';
import { RpcCode, type WireError } from './message.ts';

const MOST_CHARACTERS = 4000;
const MOST_DETAILS = 64 * 1024;

const OurData = z.object({
  code: z.string(),
  advice: z.string().max(MOST_CHARACTERS).optional(),
  details: z.record(z.string(), z.unknown()).optional(),
});

/** Whatever is not an error of ours is not told: it may speak of what the other side must not see. */
export function toWire(error: unknown): WireError {
  if (!(error instanceof CellaError)) {
    const { rpc: code, advice } = errorCodes.INTERNAL;
    return { code, message: 'The call failed for a reason that nobody foresaw.', data: { code: 'INTERNAL', advice } };
  }
  const { code, advice } = error;
  const message = error.message.slice(0, MOST_CHARACTERS);
  return { code: errorCodes[code].rpc, message, data: { code, advice, details: sendable(error.details) } };
}

/** An error can always be told: what would make it too long, or is no JSON, stays here. */
function sendable(details: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  try {
    return JSON.stringify(details).length > MOST_DETAILS ? {} : details;
  } catch {
    // A circle or a BigInt: details are an extra, the code and the message are what counts.
    return {};
  }
}

/** For what goes wrong below the calls: with the number that JSON-RPC has for it. */
export function wireFault(rpc: number, message: string): WireError {
  const code: ErrorCode = rpc === RpcCode.invalidParams ? 'INVALID_OPTIONS' : 'RUNNER_PROTOCOL';
  return { code: rpc, message, data: { code, advice: errorCodes.RUNNER_PROTOCOL.advice, details: { rpc } } };
}

export function fromWire({ code: rpc, message, data }: WireError): CellaError {
  const ours = OurData.safeParse(data);
  const told = ours.success && isCode(ours.data.code) ? ours.data.code : undefined;
  const code = told ?? codeOf(rpc) ?? 'RUNNER_PROTOCOL';
  const { advice, details = {} } = ours.success ? ours.data : {};
  return new CellaError(code, message.slice(0, MOST_CHARACTERS), {
    details: told ? details : { ...details, rpc },
    ...(advice !== undefined && advice !== errorCodes[code].advice && { advice }),
  });
}

function isCode(text: string): text is ErrorCode {
  return Object.hasOwn(errorCodes, text);
}

function codeOf(rpc: number): ErrorCode | undefined {
  return Object.keys(errorCodes)
    .filter(isCode)
    .find((code) => errorCodes[code].rpc === rpc);
}
