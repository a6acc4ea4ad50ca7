import { type Open, openSession } from '../support/session.ts';
import { stateContract } from './state.ts';

const openInProcess: Open = (options = {}) => openSession({ executor: 'in-process', ...options });

stateContract('in-process', openInProcess);
