/** How fast output reaches the host as text, in megabytes of 10^6 bytes: in one print, and in very many. */

import { timed } from '../clock.ts';
import type { Plan } from '../plan.ts';
import { atRest } from '../processes.ts';
import type { Progress } from '../progress.ts';
import type { Throughput } from '../result.ts';
import { median, rounded } from '../statistics.ts';
import { runOk, type Subjects } from '../subjects.ts';

interface Printing {
  readonly prepare: string;
  readonly print: string;
  /** All of it must arrive: text that is lost would look like speed. */
  readonly bytes: number;
  readonly rounds: number;
}

type Run = (code: string, onText?: (text: string) => void) => Promise<void>;

export function measureBigPrint(subjects: Subjects, plan: Plan['bigPrint'], progress: Progress): Promise<Throughput> {
  const prepare = `text = 'x' * ${plan.bytes - 1}`;
  return measure(subjects, { ...plan, prepare, print: 'print(text)' }, progress);
}

export function measureSmallPrints(
  subjects: Subjects,
  plan: Plan['smallPrints'],
  progress: Progress,
): Promise<Throughput> {
  const prepare = `line = 'x' * ${plan.lineBytes - 1}`;
  const print = `for _ in range(${plan.lines}): print(line)`;
  return measure(subjects, { ...plan, prepare, print, bytes: plan.lines * plan.lineBytes }, progress);
}

async function measure(subjects: Subjects, printing: Printing, progress: Progress): Promise<Throughput> {
  await using pair = await subjects.pair();
  const runCella: Run = (code, onText) => runOk(pair.cella, code, onText);
  const runIPykernel: Run = (code, onText) => pair.ipykernel.run(code, onText);
  const cella: number[] = [];
  const ipykernel: number[] = [];
  await runCella(printing.prepare);
  await runIPykernel(printing.prepare);
  for (let round = 0; round <= printing.rounds; round++) {
    const [ours, theirs] = [await throughput(runCella, printing), await throughput(runIPykernel, printing)];
    progress.tick(round, printing.rounds);
    if (round === 0) continue;
    cella.push(ours);
    ipykernel.push(theirs);
  }
  return {
    cellaMbPerS: rounded(median(cella)),
    ipykernelMbPerS: rounded(median(ipykernel)),
    ratio: rounded(median(cella) / median(ipykernel)),
  };
}

async function throughput(run: Run, printing: Printing): Promise<number> {
  await atRest();
  let bytes = 0;
  const { ms } = await timed(() =>
    run(printing.print, (text) => {
      bytes += text.length;
    }),
  );
  if (bytes !== printing.bytes) throw new Error(`Of ${printing.bytes} printed bytes ${bytes} arrived.`);
  return bytes / 1e6 / (ms / 1000);
}
