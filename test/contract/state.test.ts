import { openSession } from '../support/session.ts';
import { stateContract } from './state.ts';

stateContract('subprocess', openSession, { templated: true });
