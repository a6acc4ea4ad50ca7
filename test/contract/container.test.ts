import { openContainer } from '../support/container.ts';
import { executorContract } from './contract.ts';

executorContract('container', openContainer);
