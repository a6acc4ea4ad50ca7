import { openInProcess } from '../../support/kernels/in-process.ts';
import { stateContract } from './state.ts';

stateContract('in-process', openInProcess, { templated: false });
