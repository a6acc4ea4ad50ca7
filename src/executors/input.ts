/** The input of a program, as frames on its connection. */

import type { FrameConnection } from '../kernel/kernel-connection.ts';
import { FrameType } from '../protocol/frames.ts';
import type { ByteSink } from './contract.ts';

/** Whoever stands over the program holds one frame at a time. */
const FRAME_BYTES = 65_536;

export function inputOver(control: FrameConnection): ByteSink {
  // One write after the other, and the end behind them all, however many are waited for.
  let last = Promise.resolve();
  const feed = async (bytes: Uint8Array) => {
    for (let at = 0; at < bytes.length; at += FRAME_BYTES) {
      await control.sendAndDrain(FrameType.typed, 0, bytes.subarray(at, at + FRAME_BYTES));
    }
  };
  return {
    write: (bytes) => {
      last = last.then(() => feed(bytes));
      return last;
    },
    end: () => {
      void last.then(() => control.send(FrameType.ended, 0));
    },
  };
}
