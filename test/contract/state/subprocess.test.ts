import { openSession } from '../../support/kernels/session.ts';
import { stateContract } from './state.ts';

stateContract('subprocess', openSession, { templated: true });
