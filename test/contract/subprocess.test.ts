import { openSession } from '../support/session.ts';
import { executorContract } from './contract.ts';

executorContract('subprocess', openSession);
