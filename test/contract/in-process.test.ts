import { everything } from '../support/depth.ts';
import { lendInProcess, openInProcess } from '../support/in-process.ts';
import { executorContract } from './contract.ts';

/** Each start is half a second of work. */
const many = everything ? undefined : 10;

executorContract('in-process', openInProcess, lendInProcess, many);
