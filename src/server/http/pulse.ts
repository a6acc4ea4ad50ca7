/** Whether the other end of a connection is there: it is asked, and has until the next beat to give any sign. */

export interface Beat {
  /** Whether there is room for the question: where much is on its way, how that is taken tells as much. */
  readonly room: boolean;
  /** Whether an answer would be heard. */
  readonly listening: boolean;
}

export class Pulse {
  /** It was asked, and has said nothing since. */
  #silent = false;

  heard(): void {
    this.#silent = false;
  }

  /** What there is to do at this beat. One that was not asked is not missed. */
  beat({ room, listening }: Beat): 'ask' | 'wait' | 'let go' {
    if (this.#silent) return 'let go';
    if (!room) return 'wait';
    this.#silent = listening;
    return 'ask';
  }
}
