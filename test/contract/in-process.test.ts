import { lendInProcess, openInProcess } from '../support/in-process.ts';
import { executorContract } from './contract.ts';

executorContract('in-process', openInProcess, lendInProcess);
