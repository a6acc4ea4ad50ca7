import { type Open, openSession } from '../support/session.ts';
import { executorContract } from './contract.ts';

const openInProcess: Open = (options = {}) => openSession({ executor: 'in-process', ...options });

executorContract('in-process', openInProcess);
