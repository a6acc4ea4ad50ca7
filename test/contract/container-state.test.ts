import { openContainer } from '../support/container.ts';
import { stateContract } from './state.ts';

stateContract('container', openContainer, { templated: false });
