import { openWarmContainer } from '../support/container.ts';
import { executorContract } from './contract.ts';

executorContract('container', openWarmContainer);
