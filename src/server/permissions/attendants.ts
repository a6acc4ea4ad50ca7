/** Those who are there to answer for a session. A tool of a kernel's code waits only while one of them may answer. */

export interface Attendant {
  readonly id: number;
  readonly leave: () => void;
}

interface Asked {
  readonly by: Set<number>;
  readonly onNobody: () => void;
}

export class Attendants {
  readonly #there = new Set<number>();
  readonly #asked = new Map<string, Asked>();
  #count = 0;

  get nobody(): boolean {
    return this.#there.size === 0;
  }

  /** What waits is for them, too. */
  attend(): Attendant {
    const id = ++this.#count;
    this.#there.add(id);
    for (const { by } of this.#asked.values()) by.add(id);
    const leave = () => {
      this.#there.delete(id);
      for (const asked of [...this.#asked.values()]) withdraw(asked, id);
    };
    return { id, leave };
  }

  /** `onNobody` is told when all have gone or abstained. */
  ask(permission: string, onNobody: () => void): Disposable {
    this.#asked.set(permission, { by: new Set(this.#there), onNobody });
    return { [Symbol.dispose]: () => void this.#asked.delete(permission) };
  }

  /** This one leaves the answer to the others. */
  abstain(permission: string, attendant: number): void {
    const asked = this.#asked.get(permission);
    if (asked) withdraw(asked, attendant);
  }
}

function withdraw({ by, onNobody }: Asked, attendant: number): void {
  if (by.delete(attendant) && by.size === 0) onNobody();
}
