import { lendInProcess, openInProcess } from '../../support/kernels/in-process.ts';
import { everything } from '../../support/run/depth.ts';
import { executorContract } from './executor.ts';

/** Each start is half a second of work. */
const many = everything ? undefined : 10;

executorContract('in-process', openInProcess, lendInProcess, many);
