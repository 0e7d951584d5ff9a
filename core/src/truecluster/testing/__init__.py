"""The contract kit: for each kind of plugin a base class that its tests subclass. Needs ``truecluster[testing]``.

A base class isn't collected; the subclass is named ``Test…`` and gives the fixtures that the base class asks for.
"""
