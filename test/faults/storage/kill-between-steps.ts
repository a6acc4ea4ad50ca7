/** Kills this process between two steps: each call into the file system is one. */

import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

type Step = (...words: unknown[]) => unknown;

/** Dies before the given step, counted from 1; without that many, it lives. The names of the steps come as they are made. */
export async function dieBeforeStep(step: number): Promise<string[]> {
  const file = await fs.promises.open(process.execPath);
  const handle = Object.getPrototypeOf(file);
  await file.close();
  const steps: string[] = [];
  const counted = (name: string, work: Step): Step =>
    function (this: unknown, ...words) {
      steps.push(name);
      if (steps.length === step) process.kill(process.pid, 'SIGKILL');
      return Reflect.apply(work, this, words);
    };
  for (const name of ['mkdir', 'open', 'rename', 'rm', 'readdir', 'stat', 'readFile']) {
    Reflect.set(fs.promises, name, counted(name, Reflect.get(fs.promises, name)));
  }
  for (const name of ['writeFile', 'sync', 'close', 'read']) {
    Reflect.set(handle, name, counted(name, Reflect.get(handle, name)));
  }
  syncBuiltinESMExports();
  return steps;
}
